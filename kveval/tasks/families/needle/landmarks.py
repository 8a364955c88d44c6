"""World knowledge that links a needle to a question: landmarks, their cities and their countries, one per country."""

from __future__ import annotations

from typing import NamedTuple


class Landmark(NamedTuple):
    """A sight known by a name that shares no word with its city's or its country's.

    Attributes:
        name: as it stands in a sentence, with its article.
    """

    name: str
    city: str
    country: str


LANDMARKS = (
    Landmark("the Eiffel Tower", "Paris", "France"),
    Landmark("the Semper Opera House", "Dresden", "Germany"),
    Landmark("the Colosseum", "Rome", "Italy"),
    Landmark("the Sagrada Família", "Barcelona", "Spain"),
    Landmark("the Hagia Sophia", "Istanbul", "Turkey"),
    Landmark("the Charles Bridge", "Prague", "the Czech Republic"),
    Landmark("the Atomium", "Brussels", "Belgium"),
    Landmark("the Rijksmuseum", "Amsterdam", "the Netherlands"),
    Landmark("the Parthenon", "Athens", "Greece"),
    Landmark("the Belém Tower", "Lisbon", "Portugal"),
    Landmark("Schönbrunn Palace", "Vienna", "Austria"),
    Landmark("the Fisherman's Bastion", "Budapest", "Hungary"),
    Landmark("the statue of the Little Mermaid", "Copenhagen", "Denmark"),
    Landmark("the Vasa Museum", "Stockholm", "Sweden"),
    Landmark("the Holmenkollen ski jump", "Oslo", "Norway"),
    Landmark("the Temppeliaukio Church", "Helsinki", "Finland"),
    Landmark("the Hallgrímskirkja", "Reykjavik", "Iceland"),
    Landmark("the Ha'penny Bridge", "Dublin", "Ireland"),
    Landmark("Trafalgar Square", "London", "the United Kingdom"),
    Landmark("Wawel Castle", "Kraków", "Poland"),
    Landmark("the Kremlin's Spasskaya Tower", "Moscow", "Russia"),
    Landmark("the Khan el-Khalili bazaar", "Cairo", "Egypt"),
    Landmark("the Table Mountain cableway", "Cape Town", "South Africa"),
    Landmark("the Jemaa el-Fnaa", "Marrakesh", "Morocco"),
    Landmark("the Burj Khalifa", "Dubai", "the United Arab Emirates"),
    Landmark("the Azadi Tower", "Tehran", "Iran"),
    Landmark("the Registan", "Samarkand", "Uzbekistan"),
    Landmark("the Badshahi Mosque", "Lahore", "Pakistan"),
    Landmark("the Charminar", "Hyderabad", "India"),
    Landmark("the Boudhanath stupa", "Kathmandu", "Nepal"),
    Landmark("the Shwedagon Pagoda", "Yangon", "Myanmar"),
    Landmark("Wat Arun", "Bangkok", "Thailand"),
    Landmark("the Petronas Towers", "Kuala Lumpur", "Malaysia"),
    Landmark("the Senso-ji temple", "Tokyo", "Japan"),
    Landmark("Gyeongbokgung Palace", "Seoul", "South Korea"),
    Landmark("the Temple of Heaven", "Beijing", "China"),
    Landmark("Hoan Kiem Lake", "Hanoi", "Vietnam"),
    Landmark("Bondi Beach", "Sydney", "Australia"),
    Landmark("the Te Papa museum", "Wellington", "New Zealand"),
    Landmark("the CN Tower", "Toronto", "Canada"),
    Landmark("the Space Needle", "Seattle", "the United States"),
    Landmark("the Soumaya Museum", "Mexico City", "Mexico"),
    Landmark("the statue of Christ the Redeemer", "Rio de Janeiro", "Brazil"),
    Landmark("La Bombonera stadium", "Buenos Aires", "Argentina"),
    Landmark("La Moneda Palace", "Santiago", "Chile"),
    Landmark("the Monserrate hill", "Bogotá", "Colombia"),
    Landmark("the Capitolio", "Havana", "Cuba"),
    Landmark("the Palacio Salvo", "Montevideo", "Uruguay"),
    Landmark("the Miraflores Locks", "Panama City", "Panama"),
    Landmark("the Latin Bridge", "Sarajevo", "Bosnia and Herzegovina"),
    Landmark("the Kalemegdan fortress", "Belgrade", "Serbia"),
    Landmark("Gediminas' Tower", "Vilnius", "Lithuania"),
    Landmark("Kadriorg Palace", "Tallinn", "Estonia"),
    Landmark("the Maidan Nezalezhnosti", "Kyiv", "Ukraine"),
    Landmark("the Jet d'Eau", "Geneva", "Switzerland"),
    Landmark("Angkor Wat", "Siem Reap", "Cambodia"),
    Landmark("Rizal Park", "Manila", "the Philippines"),
    Landmark("Uhuru Gardens", "Nairobi", "Kenya"),
    Landmark("Meskel Square", "Addis Ababa", "Ethiopia"),
    Landmark("the Black Star Gate", "Accra", "Ghana"),
    Landmark("the Flame Towers", "Baku", "Azerbaijan"),
    Landmark("the Narikala fortress", "Tbilisi", "Georgia"),
    Landmark("the Matenadaran", "Yerevan", "Armenia"),
    Landmark("the Souq Waqif", "Doha", "Qatar"),
)
